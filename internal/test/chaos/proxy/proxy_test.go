package proxy_test

import (
	"bufio"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/proxy"
	"github.com/carillon/carillon/internal/test/services/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// echo answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewReader(conn); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte(line))
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func connect(t *testing.T) (*proxy.Link, net.Conn, *bufio.Reader) {
	t.Helper()
	link, err := proxy.New(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	conn, err := net.Dial("tcp", link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return link, conn, bufio.NewReader(conn)
}

// say sends a line and returns what comes back within a time.
func say(t *testing.T, conn net.Conn, answers *bufio.Reader, line string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := conn.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	_ = conn.SetReadDeadline(time.Now().Add(within))
	return answers.ReadString('\n')
}

func TestABlackHoleSwallowsAndLetsGoAgain(t *testing.T) {
	for _, mode := range []proxy.Mode{proxy.BlackHole, proxy.Mute, proxy.Deaf} {
		link, conn, answers := connect(t)
		if got, err := say(t, conn, answers, "before", 5*time.Second); err != nil || got != "before\n" {
			t.Fatalf("through a whole link: %q, %v", got, err)
		}
		link.Set(mode)
		var timeout net.Error
		if got, err := say(t, conn, answers, "into the hole", 50*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("mode %d: into the hole: %q, %v; want silence, and no reset", mode, got, err)
		}
		link.Set(proxy.Pass)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if got, err := answers.ReadString('\n'); err != nil || got != "into the hole\n" {
			t.Errorf("mode %d: afterwards: %q, %v", mode, got, err)
		}
	}
}

func TestAResetIsFelt(t *testing.T) {
	link, conn, answers := connect(t)
	if _, err := say(t, conn, answers, "before", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	link.Reset()
	if got, err := say(t, conn, answers, "after", 5*time.Second); err == nil {
		t.Errorf("after a reset comes %q", got)
	}
}

func TestADelayHoldsBack(t *testing.T) {
	link, conn, answers := connect(t)
	link.Delay(30 * time.Millisecond)
	began := time.Now()
	if _, err := say(t, conn, answers, "slow", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("there and back took %s, want twice the delay", took)
	}
}
