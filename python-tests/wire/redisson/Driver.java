/*
 * Driver.java: one Redisson client as a process that executes operations, for python-tests/harness/java.py.
 *
 *   java -cp ... Driver redis://host:port WATCHDOG_MS
 *   java -cp ... Driver redis+cluster://host:port,host:port... WATCHDOG_MS [AUTO|ON|OFF]
 *
 * The last word is shardedSubscriptionMode.
 *
 * It executes the lines of its standard input and answers each with one line of JSON:
 *
 *   TAG THREAD KIND NAME OPERATION ARGUMENT...
 *   {"tag":1,"began":..,"done":..,"value":..}  or  {"tag":1,"began":..,"done":..,"error":"class","message":".."}
 *
 * Each THREAD, a word, is one Java thread, made when first named; its lines are carried out one after the other. Words
 * are URL-encoded. Durations are milliseconds, -1 where Redisson's method without that argument is meant. The times of an
 * answer are microseconds of CLOCK_MONOTONIC before and after the call. Objects are made once per kind and name.
 */
import java.io.*;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.client.RedisTimeoutException;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

public final class Driver {
    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    private final RedissonClient redisson;
    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    private final Map<String, Executor> threads = new ConcurrentHashMap<>();

    private Driver(String address, long watchdog, String sharded) {
        Config config = new Config().setThreads(8).setNettyThreads(4).setLockWatchdogTimeout(watchdog);
        String cluster = "redis+cluster://";
        if (address.startsWith(cluster)) {
            for (String place : address.substring(cluster.length()).split(",")) {
                config.useClusterServers().addNodeAddress("redis://" + place).setMasterConnectionMinimumIdleSize(2);
            }
            config.useClusterServers().setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(sharded));
        } else {
            config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(2);
        }
        redisson = Redisson.create(config);
    }

    public static void main(String[] words) throws IOException {
        Driver driver = new Driver(words[0], Long.parseLong(words[1]), words.length > 2 ? words[2] : "AUTO");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            driver.start(Arrays.stream(line.split(" ")).map(Driver::decode).toArray(String[]::new));
        }
        System.exit(0);
    }

    // ---- lines

    private void start(String[] words) {
        Executor thread = threads.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor());
        thread.execute(() -> answer(words));
    }

    private void answer(String[] words) {
        Arguments arguments = new Arguments(words);
        long began = now();
        String result;
        try {
            result = "\"value\":" + json(execute(words[2], words[3], words[4], arguments));
        } catch (Throwable error) {
            String text = encode(String.valueOf(error.getMessage()));
            result = "\"error\":\"" + error.getClass().getSimpleName() + "\",\"message\":\"" + text + "\"";
        }
        long done = now();
        synchronized (System.out) {
            System.out.printf("{\"tag\":%s,\"began\":%d,\"done\":%d,%s}%n", words[0], began, done, result);
        }
    }

    /** The words after the operation, taken one by one. */
    private static final class Arguments {
        private final String[] words;
        private int next = 5;

        Arguments(String[] words) {
            this.words = words;
        }

        String text() {
            return words[next++];
        }

        long number() {
            return Long.parseLong(text());
        }

        int count() {
            return Integer.parseInt(text());
        }

        List<String> rest() {
            return Arrays.asList(words).subList(next, words.length);
        }
    }

    private static long now() {
        return System.nanoTime() / 1000;
    }

    private static String decode(String word) {
        return URLDecoder.decode(word, StandardCharsets.UTF_8);
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    private static String json(Object value) {
        if (value instanceof String text) {
            return "\"" + encode(text) + "\"";
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Driver::json).collect(Collectors.joining(",", "[", "]"));
        }
        return String.valueOf(value);
    }

    // ---- objects

    private Object make(String kind, String name) {
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "fenced" -> redisson.getFencedLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "multi" -> redisson.getMultiLock(
                    Arrays.stream(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            case "fencedMulti" -> redisson.getMultiLock(
                    Arrays.stream(name.split(",")).map(redisson::getFencedLock).toArray(RLock[]::new));
            case "semaphore" -> redisson.getSemaphore(name);
            case "permits" -> redisson.getPermitExpirableSemaphore(name);
            case "latch" -> redisson.getCountDownLatch(name);
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        };
    }

    private Object execute(String kind, String name, String operation, Arguments arguments) throws Exception {
        if (kind.equals("driver")) {
            return operation.equals("owner") ? redisson.getId() + ":" + Thread.currentThread().getId() : null;
        }
        Object object = objects.computeIfAbsent(kind + " " + name, key -> make(kind, name));
        if (operation.equals("load")) {
            return load(object, arguments.count(), arguments.text(), arguments.text());
        }
        if (object instanceof RLock lock) {
            return ofLock(lock, operation, arguments);
        }
        if (object instanceof RSemaphore semaphore) {
            return ofSemaphore(semaphore, operation, arguments);
        }
        if (object instanceof RPermitExpirableSemaphore permits) {
            return ofPermits(permits, operation, arguments);
        }
        return ofLatch((RCountDownLatch) object, operation, arguments);
    }

    private static IllegalArgumentException unknown(String operation) {
        return new IllegalArgumentException("no such operation: " + operation);
    }

    private interface Call {
        void run() throws Exception;
    }

    private static Object done(Call call) throws Exception {
        call.run();
        return null;
    }

    private static Object ofLock(RLock lock, String operation, Arguments arguments) throws Exception {
        return switch (operation) {
            case "lock" -> done(() -> lock.lock(arguments.number(), MS));
            case "tryLock" -> lock.tryLock();
            case "tryLockFor" -> lock.tryLock(arguments.number(), arguments.number(), MS);
            case "unlock" -> done(lock::unlock);
            case "forceUnlock" -> lock.forceUnlock();
            case "isLocked" -> lock.isLocked();
            case "isHeld" -> lock.isHeldByCurrentThread();
            case "holdCount" -> lock.getHoldCount();
            case "remainTimeToLive" -> lock.remainTimeToLive();
            case "token" -> ((RFencedLock) lock).getToken();
            case "lockAndGetToken" -> ((RFencedLock) lock).lockAndGetToken();
            case "tryLockAndGetToken" ->
                    ((RFencedLock) lock).tryLockAndGetToken(arguments.number(), arguments.number(), MS);
            default -> throw unknown(operation);
        };
    }

    private static Object ofSemaphore(RSemaphore semaphore, String operation, Arguments arguments) throws Exception {
        return switch (operation) {
            case "acquire" -> done(() -> semaphore.acquire(arguments.count()));
            case "tryAcquire" -> semaphore.tryAcquire(arguments.count(), arguments.number(), MS);
            case "release" -> done(() -> semaphore.release(arguments.count()));
            case "addPermits" -> done(() -> semaphore.addPermits(arguments.count()));
            case "trySetPermits" -> semaphore.trySetPermits(arguments.count());
            case "drainPermits" -> semaphore.drainPermits();
            case "availablePermits" -> semaphore.availablePermits();
            case "delete" -> semaphore.delete();
            default -> throw unknown(operation);
        };
    }

    private static Object ofPermits(RPermitExpirableSemaphore permits, String operation, Arguments arguments)
            throws Exception {
        return switch (operation) {
            case "acquire" -> permits.acquire(arguments.count(), arguments.number(), MS);
            case "tryAcquire" -> permits.tryAcquire(arguments.count(), arguments.number(), arguments.number(), MS);
            case "release" -> done(() -> permits.release(arguments.rest()));
            case "tryRelease" -> permits.tryRelease(arguments.text());
            case "addPermits" -> done(() -> permits.addPermits(arguments.count()));
            case "setPermits" -> done(() -> permits.setPermits(arguments.count()));
            case "trySetPermits" -> permits.trySetPermits(arguments.count());
            case "availablePermits" -> permits.availablePermits();
            case "acquiredPermits" -> permits.acquiredPermits();
            case "updateLeaseTime" -> permits.updateLeaseTime(arguments.text(), arguments.number(), MS);
            case "delete" -> permits.delete();
            default -> throw unknown(operation);
        };
    }

    private static Object ofLatch(RCountDownLatch latch, String operation, Arguments arguments) throws Exception {
        return switch (operation) {
            case "trySetCount" -> latch.trySetCount(arguments.number());
            case "countDown" -> done(latch::countDown);
            case "await" -> latch.await(arguments.number(), MS);
            case "getCount" -> latch.getCount();
            case "delete" -> latch.delete();
            default -> throw unknown(operation);
        };
    }

    // ---- load

    /** Acquires the object count times. The answer has [wanted, got, done, token] of each hold; token 0: none. */
    private List<List<Long>> load(Object object, int count, String what, String counter) throws Exception {
        RBucket<String> bucket = redisson.getBucket(counter, StringCodec.INSTANCE);
        List<List<Long>> holds = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long wanted = now();
            Object held = acquire(object);
            long got = now();
            visit(bucket, what);
            holds.add(Arrays.asList(wanted, got, now(), held instanceof Long token ? token : 0L));
            release(object, held);
        }
        return holds;
    }

    /** "add": read, then write back one more; "compare": read twice and fail when it has changed in between. */
    private static void visit(RBucket<String> bucket, String what) {
        String value = bucket.get();
        if (what.equals("add")) {
            bucket.set(String.valueOf((value == null ? 0 : Long.parseLong(value)) + 1));
        } else if (!Objects.equals(value, bucket.get())) {
            throw new IllegalStateException("it changed while it was read");
        }
    }

    /** Redisson 3 now and then fails to subscribe when it has just unsubscribed; it holds nothing then. */
    private static Object acquire(Object object) throws Exception {
        for (int tries = 1;; tries++) {
            try {
                return acquireOnce(object);
            } catch (RedisTimeoutException error) {
                if (tries == 3 || !error.getMessage().contains("subscription")) {
                    throw error;
                }
            }
        }
    }

    private static Object acquireOnce(Object object) throws Exception {
        if (object instanceof RPermitExpirableSemaphore permits) {
            return permits.acquire();
        }
        if (object instanceof RSemaphore semaphore) {
            return done(semaphore::acquire);
        }
        ((RLock) object).lock();
        return object instanceof RFencedLock lock ? lock.getToken() : null;
    }

    private static void release(Object object, Object held) {
        if (object instanceof RPermitExpirableSemaphore permits) {
            permits.release((String) held);
        } else if (object instanceof RSemaphore semaphore) {
            semaphore.release();
        } else {
            ((RLock) object).unlock();
        }
    }
}
