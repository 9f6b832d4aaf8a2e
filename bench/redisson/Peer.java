/*
 * Peer.java: Redisson as a rival of libdlock, for bench/redisson.py.
 *
 *   java -cp ... Peer redis://host:port
 *
 * One JVM with one Redisson client measures again and again, so that its code is compiled by then. It executes the lines
 * of its standard input; the answer to each is lines "name value" and a last line "done". Times are in microseconds.
 *
 *   own KIND THREADS SECONDS            each thread has its own lock
 *   one KIND THREADS SECONDS            all threads want one lock
 *   drain KIND WAITERS SECONDS LIMIT    what bench/native/scale.c does, with a thread for each waiter
 *
 * An error ends the JVM with a stack trace.
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.api.redisnode.RedisNode;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.config.Config;

public final class Peer {
    private static final long QUIET = TimeUnit.MILLISECONDS.toNanos(50);

    private final String address;
    private RedissonClient redisson;
    private int names;

    private Peer(String address) {
        this.address = address;
        open();
    }

    /** The default configuration, but channels for more than 250 fair waiters, each of which subscribes to its own. */
    private void open() {
        Config config = new Config();
        config.useSingleServer().setAddress(address).setSubscriptionsPerConnection(1000);
        redisson = Redisson.create(config);
    }

    public static void main(String[] words) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> fail(error));
        Peer peer = new Peer(words[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                peer.execute(line.split(" "));
            } catch (Throwable error) {
                fail(error);
            }
            System.out.println("done");
        }
        Runtime.getRuntime().halt(0);
    }

    private static void fail(Throwable error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private void execute(String[] words) throws Exception {
        int count = Integer.parseInt(words[2]);
        double seconds = Double.parseDouble(words[3]);
        if (words[0].equals("drain")) {
            drains(words[1], count, seconds, Double.parseDouble(words[4]));
        } else {
            threads(words[1], count, seconds, words[0].equals("own"));
        }
    }

    private String name() {
        return "peer:" + redisson.getId() + ":" + names++;
    }

    private static void report(String name, double value) {
        System.out.println(name + " " + value);
    }

    // ---- blocking callers

    /** What one thread measures. */
    private static final class Caller {
        long[] took = new long[1 << 14];
        int pairs;

        void add(long ns) {
            if (pairs == took.length) {
                took = Arrays.copyOf(took, 2 * pairs);
            }
            took[pairs++] = ns;
        }
    }

    private static void take(RLock lock) {
        if (lock instanceof RFencedLock fenced) {
            fenced.lockAndGetToken();
        } else {
            lock.lock();
        }
    }

    /** The thread that was last inside, and how often another one came; guarded by the lock that is measured. */
    private static final class Inside {
        volatile int last = -1;
        volatile long handoffs;
    }

    private void threads(String kind, int count, double seconds, boolean own) throws Exception {
        List<Caller> callers = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        Inside inside = new Inside();
        String shared = name();
        CountDownLatch ready = new CountDownLatch(count), go = new CountDownLatch(1);
        long[] end = new long[1];
        for (int i = 0; i < count; i++) {
            int index = i;
            Caller caller = new Caller();
            RLock lock = lock(kind, own ? name() : shared);
            callers.add(caller);
            threads.add(new Thread(() -> {
                take(lock);
                lock.unlock();
                ready.countDown();
                await(go);
                call(caller, lock, own, index, inside, end[0]);
            }));
        }
        threads.forEach(Thread::start);
        ready.await();
        inside.handoffs = 0;
        end[0] = System.nanoTime() + (long) (seconds * 1e9);
        go.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        summary(callers, seconds, inside);
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void call(Caller caller, RLock lock, boolean own, int index, Inside inside, long end) {
        long before = System.nanoTime();
        while (before < end) {
            take(lock);
            long got = System.nanoTime();
            if (!own && got < end && inside.last != index) {
                inside.last = index;
                inside.handoffs++;
            }
            lock.unlock();
            long after = System.nanoTime();
            if (got < end) {
                caller.add((own ? after : got) - before);
            }
            before = after;
        }
    }

    private static void summary(List<Caller> callers, double seconds, Inside inside) {
        long[] all = callers.stream().flatMapToLong(caller -> Arrays.stream(caller.took, 0, caller.pairs)).sorted().toArray();
        report("per_s", all.length / seconds);
        report("handoffs_per_s", inside.handoffs / seconds);
        report("p50", all.length == 0 ? 0 : all[all.length / 2] / 1e3);
        report("p99", all.length == 0 ? 0 : all[(int) (all.length * 0.99)] / 1e3);
    }

    private RLock lock(String kind, String name) {
        return switch (kind) {
            case "mutex" -> redisson.getLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        };
    }

    // ---- many waiters

    /** One object that is acquired and released. What acquire returns is passed to release. */
    private record Queue(Callable<Object> acquire, Consumer<Object> release) {}

    private Queue queue(String kind) {
        String name = name();
        if (kind.equals("semaphore")) {
            RSemaphore semaphore = redisson.getSemaphore(name);
            semaphore.trySetPermits(1);
            return new Queue(() -> { semaphore.acquire(); return null; }, held -> semaphore.release());
        }
        if (kind.equals("permits")) {
            RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(name);
            permits.trySetPermits(1);
            return new Queue(permits::acquire, held -> permits.release((String) held));
        }
        RLock lock = lock(kind, name);
        return new Queue(() -> { lock.lock(); return null; }, held -> lock.unlock());
    }

    /** Calls that the server has counted: all, scripts. */
    private long[] calls() {
        Map<String, String> stats =
                redisson.getRedisNodes(RedisNodes.SINGLE).getInstance().info(RedisNode.InfoSection.COMMANDSTATS);
        long[] sums = new long[2];
        stats.forEach((key, value) -> {
            if (!key.startsWith("cmdstat_") || key.equals("cmdstat_info")) {
                return;
            }
            long count = Long.parseLong(value.substring("calls=".length(), value.indexOf(',')));
            sums[0] += count;
            sums[1] += key.startsWith("cmdstat_eval") ? count : 0;
        });
        return sums;
    }

    /** Sums over the rounds of a case. */
    private static final class Sums {
        long grants, drainedNs, queuedNs, queued, commands, scripts;
        double part = 1;
        boolean stopped;
    }

    private void drains(String kind, int waiters, double seconds, double limit) throws Exception {
        long now = System.nanoTime(), end = now + (long) (seconds * 1e9), last = now + (long) (limit * 1e9);
        Sums sums = new Sums();
        for (boolean first = true; first || System.nanoTime() < Math.min(end, last); first = false) {
            round(queue(kind), waiters, last, sums);
            if (sums.stopped) { // waiters are left: they end with their client
                redisson.shutdown();
                open();
                break;
            }
        }
        report("queued_us", sums.queuedNs / 1e3 / sums.queued);
        report("granted_per_s", sums.grants * 1e9 / sums.drainedNs);
        report("granted_commands", (double) sums.commands / Math.max(sums.grants, 1));
        report("granted_scripts", (double) sums.scripts / Math.max(sums.grants, 1));
        report("part", sums.part);
    }

    /** The waiters of one round, of which the main thread knows how many got the lock. */
    private static final class Waiters {
        final AtomicInteger granted = new AtomicInteger();
        final CountDownLatch released;
        volatile boolean over; // the round was stopped: waiters fail with their client

        Waiters(int count) {
            released = new CountDownLatch(count);
        }

        void waitFor(Queue queue) {
            try {
                Object held = queue.acquire().call();
                granted.incrementAndGet();
                queue.release().accept(held);
                released.countDown();
            } catch (Exception error) {
                if (!over) {
                    fail(error);
                }
            }
        }
    }

    private void round(Queue queue, int count, long limit, Sums sums) throws Exception {
        Waiters waiters = new Waiters(count);
        Object held = queue.acquire().call();
        long began = System.nanoTime();
        for (int i = 0; i < count; i++) {
            Thread thread = new Thread(() -> waiters.waitFor(queue));
            thread.setDaemon(true);
            thread.start();
        }
        sums.queuedNs += settle(began, began + (limit - began) / 2) - began;
        sums.queued += count;
        long[] before = calls();
        began = System.nanoTime();
        queue.release().accept(held);
        waiters.over = !waiters.released.await(Math.max(limit - began, 0), TimeUnit.NANOSECONDS);
        sums.stopped = waiters.over;
        sums.drainedNs += System.nanoTime() - began;
        long[] after = calls();
        sums.commands += after[0] - before[0];
        sums.scripts += after[1] - before[1];
        sums.grants += waiters.granted.get();
        sums.part = Math.min(sums.part, (double) waiters.granted.get() / count);
    }

    /** Waits until no command follows for a while; returns when the last one came. */
    private long settle(long began, long limit) throws InterruptedException {
        long seen = -1, last = began, now;
        do {
            long calls = calls()[0];
            now = System.nanoTime();
            last = calls == seen ? last : now;
            seen = calls;
            TimeUnit.NANOSECONDS.sleep((now - began) / 20 + 200_000);
        } while (now - last < QUIET && now < limit);
        return last;
    }
}
