package servers

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// redisDatabases is how many tests can have a database of their own at once.
const redisDatabases = 1024

// startRedis starts a Redis that keeps nothing.
func startRedis(ctx context.Context, o Options, program string) (*Server, error) {
	owner, err := serverAccount("redis", "valkey")
	if err != nil {
		return nil, err
	}
	f, err := newFolder(o.Base(), owner)
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	s, err := startOnFreePort(ctx, func(port int) (*Server, error) {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		s, err := spawn(f, syscall.SIGKILL, program,
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--requirepass", password, "--dir", f.path,
			"--databases", strconv.Itoa(redisDatabases), "--save", "", "--appendonly", "no")
		if err != nil {
			return nil, err
		}
		// "default" is the user that a Redis without users of its own has;
		// redis-cli refuses a URL that leaves it out.
		s.url = fmt.Sprintf("redis://default:%s@%s/0", password, address)
		s.ready = func(ctx context.Context) bool { return redisAnswers(ctx, address, password) }
		return s, nil
	})
	if err != nil {
		f.remove()
		return nil, err
	}
	return s, nil
}

// redisAnswers tells whether the Redis at address knows the password, and so
// is ours, and takes commands.
func redisAnswers(ctx context.Context, address, password string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nPING\r\n", password); err != nil {
		return false
	}
	answers := bufio.NewReader(conn)
	for _, expected := range []string{"+OK", "+PONG"} {
		answer, err := answers.ReadString('\n')
		if err != nil || strings.TrimSpace(answer) != expected {
			return false
		}
	}
	return true
}
