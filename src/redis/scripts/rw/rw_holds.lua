-- Our own holders of a read-write lock, beside the hash. Redisson's clients may end the hash while one of ours holds: by a
-- PEXPIRE with a lease of theirs, or by DEL. They do not know this key. By it ours keep each other out all the same.
--   holds  zset, ours: id -> the ms in which its lease ends; of a writer, WRITER + that. Without holders it is gone. An
--          entry ends by its lease or by the release of its holder, not with the hash: until the holder hears of that
--          loss, it believes that it holds. A resting hold has an entry, too.
local WRITER = 9e15
