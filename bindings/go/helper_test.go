package dlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Tests start redis-server, or the program that DLOCK_SERVER names, from PATH. DLOCK_TEST_FULL sets the full counts.

const while = 20 * time.Second // longer than anything here takes

var (
	full   = os.Getenv("DLOCK_TEST_FULL") != ""
	shared *server
)

func TestMain(m *testing.M) {
	if role := os.Getenv("DLOCK_TEST_ROLE"); role != "" {
		if err := children[role](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if shared, err = newServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("REDIS_URL", shared.url) // for the examples
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// ---- a server

type server struct {
	url, path, folder string
	pid               int
	shell             *exec.Cmd
	alive             io.Closer // the shell ends the server when this closes, be it because this process is gone
}

const startServer = `"${DLOCK_SERVER:-redis-server}" "$@" >/dev/null & echo $!; cat >/dev/null; kill -9 $!; wait`

func newServer() (*server, error) {
	folder, err := os.MkdirTemp("", "dlock-")
	if err != nil {
		return nil, err
	}
	s := &server{folder: folder, path: filepath.Join(folder, "redis.sock")}
	s.url = "redis+unix://" + s.path
	s.shell = exec.Command("sh", "-c", startServer, "sh", "--port", "0", "--unixsocket", s.path, "--save", "", "--dir", folder)
	if s.alive, err = s.shell.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.shell.StdoutPipe()
	if err == nil {
		err = s.shell.Start()
	}
	if err == nil {
		_, err = fmt.Fscan(out, &s.pid)
	}
	for end := time.Now().Add(while); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", s.path); err == nil {
			conn.Close()
			return s, nil
		}
	}
	return nil, fmt.Errorf("the server did not start: %v", err)
}

func (s *server) signal(signal syscall.Signal) { _ = syscall.Kill(s.pid, signal) }

// stop ends the server. It may be called again.
func (s *server) stop() {
	s.alive.Close()
	_ = s.shell.Wait()
	os.RemoveAll(s.folder)
}

// own starts a server for one test.
func own(t testing.TB) *server {
	t.Helper()
	s, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// pause stops the server and waits until it has stopped.
func (s *server) pause(t testing.TB) {
	s.signal(syscall.SIGSTOP)
	eventually(t, "the server stops", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
		return strings.Contains(string(stat), ") T ")
	})
}

func (s *server) resume() { s.signal(syscall.SIGCONT) }

// redis is one connection, for one goroutine at a time.
type redis struct {
	conn net.Conn
	in   *bufio.Reader
}

func dial(path string) (*redis, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &redis{conn, bufio.NewReader(conn)}, nil
}

// do sends one command and returns its answer: a string, an int64, nil or a list of them.
func (r *redis) do(words ...string) (any, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(r.conn, out.String()); err != nil {
		return nil, err
	}
	return r.read()
}

func (r *redis) read() (any, error) {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	number, _ := strconv.ParseInt(rest, 10, 64)
	switch {
	case kind == '+':
		return rest, nil
	case kind == ':':
		return number, nil
	case number < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, number+2)
		_, err := io.ReadFull(r.in, text)
		return string(text[:number]), err
	case kind == '*':
		list := make([]any, number)
		for i := range list {
			if list[i], err = r.read(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, errors.New(rest)
}

// command sends one command on a new connection.
func (s *server) command(t testing.TB, words ...string) any {
	t.Helper()
	r, err := dial(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.conn.Close()
	answer, err := r.do(words...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// ---- clients

func open(t testing.TB, s *server, options ...Option) *Client {
	t.Helper()
	client, err := Open(s.url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func mutex(t testing.TB, client *Client, name string, options ...Option) *Lock {
	t.Helper()
	lock, err := client.Mutex(name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func held(t testing.TB, lock *Lock) *Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), while)
	t.Cleanup(cancel)
	grant, err := lock.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func unlock(t testing.TB, grant *Grant) {
	t.Helper()
	if err := grant.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// want checks that err is each of targets, or nil without targets.
func want(t testing.TB, err error, targets ...error) {
	t.Helper()
	if err != nil && len(targets) == 0 {
		t.Fatal(err)
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("not %q but %v", target, err)
		}
	}
}

// ---- conditions

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(while); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came true: %s", what)
		}
	}
}

func soon(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(while):
		t.Fatalf("it never happened: %s", what)
	}
}

func stats(t testing.TB, client *Client) Stats {
	t.Helper()
	stats, err := client.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// entries counts the entries of a folder of this process in /proc: "task" for threads, "fd" for descriptors.
func entries(what string) int {
	list, _ := os.ReadDir("/proc/self/" + what)
	return len(list)
}

// parallel runs f in n goroutines and waits for them.
func parallel(n int, f func(i int)) {
	var all sync.WaitGroup
	all.Add(n)
	for i := 0; i < n; i++ {
		go func(i int) {
			defer all.Done()
			f(i)
		}(i)
	}
	all.Wait()
}
