// A program with Java's Curator, the other side of tests: it reads lines and answers each.
//
//   lock WORD NAME [KIND]  "WORD locked": held; the answer may come later. KIND: mutex, read, write, permits and their number
//                          ("permits3"), or counted: as many as SharedCount has in NAME/total
//   try WORD NAME [KIND]   the same, or "WORD busy"
//   unlock WORD            "WORD unlocked"
//   hold WORD NAME TIMES MICROSECONDS [KIND]    lock and unlock; a line "WORD held FROM TO" for each, then "WORD done"
//   pairs WORD NAME FROM TO    lock and unlock; "WORD pairs NUMBER MEDIAN" of those between these times
//
// Each WORD is a thread: a lock of Curator belongs to one. Times are those of CLOCK_MONOTONIC in microseconds.
// Usage: Peer HOSTS SESSION_MS

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;

public class Peer {
    private static final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessLock> locks = new ConcurrentHashMap<>();
    private static CuratorFramework client;

    private static synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words)
            line.append(line.length() > 0 ? " " : "").append(word);
        System.out.println(line);
        System.out.flush();
    }

    private static long now() {
        return System.nanoTime() / 1000;
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void in(String word, Step step) {
        threads.computeIfAbsent(word, any -> Executors.newSingleThreadExecutor()).execute(() -> {
            try {
                step.run();
            } catch (Exception error) {
                say("failed", error);
            }
        });
    }

    // One permit of a semaphore.
    private static class Permit implements InterProcessLock {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Permit(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        public void acquire() throws Exception {
            lease = semaphore.acquire();
        }

        public boolean acquire(long time, TimeUnit unit) throws Exception {
            lease = semaphore.acquire(time, unit);
            return lease != null;
        }

        public void release() {
            semaphore.returnLease(lease);
            lease = null;
        }

        public boolean isAcquiredInThisProcess() {
            return lease != null;
        }
    }

    private static InterProcessLock of(String name, String kind) throws Exception {
        if (kind.equals("mutex"))
            return new InterProcessMutex(client, "/" + name);
        if (kind.startsWith("permits"))
            return new Permit(new InterProcessSemaphoreV2(client, "/" + name, Integer.parseInt(kind.substring(7))));
        if (kind.equals("counted")) {
            SharedCount count = new SharedCount(client, "/" + name + "/total", 1);
            count.start();
            return new Permit(new InterProcessSemaphoreV2(client, "/" + name, count));
        }
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, "/" + name);
        return kind.equals("read") ? both.readLock() : both.writeLock();
    }

    private static void take(String word, InterProcessLock lock, boolean wait) throws Exception {
        if (wait)
            lock.acquire();
        else if (!lock.acquire(0, TimeUnit.SECONDS)) {
            say(word, "busy");
            return;
        }
        locks.put(word, lock);
        say(word, "locked", now());
    }

    private static void hold(String word, InterProcessLock lock, int times, long micros) throws Exception {
        for (int i = 0; i < times; i++) {
            lock.acquire();
            long from = now();
            TimeUnit.MICROSECONDS.sleep(micros);
            say(word, "held", from, now());
            lock.release();
        }
        say(word, "done");
    }

    private static void pairs(String word, InterProcessLock lock, long from, long to) throws Exception {
        List<Long> took = new ArrayList<>(List.of(0L));
        for (long began = now(); began < to; began = now()) {
            lock.acquire();
            lock.release();
            if (began >= from)
                took.add(now() - began);
        }
        Collections.sort(took);
        say(word, "pairs", took.size() - 1, took.get(took.size() / 2));
    }

    public static void main(String[] options) throws Exception {
        client = CuratorFrameworkFactory.newClient(options[0], Integer.parseInt(options[1]), 5000, new RetryNTimes(50, 100));
        client.start();
        client.blockUntilConnected();
        say("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String word = words[1];
            if (words[0].equals("unlock")) {
                in(word, () -> {
                    locks.remove(word).release();
                    say(word, "unlocked", now());
                });
            } else if (words[0].equals("pairs")) {
                InterProcessLock lock = of(words[2], "mutex");
                in(word, () -> pairs(word, lock, Long.parseLong(words[3]), Long.parseLong(words[4])));
            } else if (words[0].equals("hold")) {
                InterProcessLock lock = of(words[2], words.length > 5 ? words[5] : "mutex");
                in(word, () -> hold(word, lock, Integer.parseInt(words[3]), Long.parseLong(words[4])));
            } else {
                InterProcessLock lock = of(words[2], words.length > 3 ? words[3] : "mutex");
                in(word, () -> take(word, lock, words[0].equals("lock")));
            }
        }
        System.exit(0);
    }
}
