package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

const (
	startLimit    = 60 * time.Second // one start, on a busy machine
	startAttempts = 5                // each with another port
	stopLimit     = 10 * time.Second // then the server is killed
	pollEvery     = 20 * time.Millisecond
)

// A Server is a process that we started and will stop.
type Server struct {
	name    string
	url     string
	port    *reserve.Port // held until Stop, so that Restart finds it free
	folder  folder
	program string
	args    []string
	command *exec.Cmd
	ready   func(context.Context) bool
	quit    syscall.Signal // ends it fast, without saving anything
	ended   chan struct{}  // closed when the process is gone
}

// A Set is the servers started so far, and what the command is told of them.
type Set struct {
	servers []*Server
	environ []string
}

// Start starts, one after the other, the servers whose variable is not set:
// TEST_DATABASE_URL, TEST_REDIS_URL. What was started before a failure is kept,
// for Stop. Of what tests start themselves it only finds the program:
// TEST_PGBOUNCER, TEST_PROMETHEUS.
func (r *Set) Start(ctx context.Context, o Options, getenv func(string) string) error {
	services, err := provide(wanted(getenv))
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.start == nil {
			program, err := s.find()
			if err != nil {
				return fmt.Errorf("find %s: %w", s.name, err)
			}
			r.environ = append(r.environ, s.variable+"="+program)
			continue
		}
		started, err := s.run(ctx, o)
		if err != nil {
			return err
		}
		r.servers = append(r.servers, started)
		r.environ = append(r.environ, s.variable+"="+started.url)
	}
	return nil
}

func (s service) run(ctx context.Context, o Options) (*Server, error) {
	program, err := s.find()
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", s.name, err)
	}
	started, err := s.start(ctx, o, program)
	if err != nil {
		return nil, fmt.Errorf("start %s from %s: %w", s.name, program, err)
	}
	return started, nil
}

// ErrMissing: a server is not installed, and cannot be installed from here.
var ErrMissing = errors.New("the server is not installed")

// Postgres starts one Postgres, installing it first where need be.
func Postgres(ctx context.Context, o Options) (*Server, error) { return one(ctx, o, postgres) }

// Redis starts one Redis that keeps nothing.
func Redis(ctx context.Context, o Options) (*Server, error) { return one(ctx, o, redis) }

func one(ctx context.Context, o Options, s service) (*Server, error) {
	present, err := provide([]service{s})
	if err != nil {
		return nil, err
	}
	if len(present) == 0 {
		return nil, fmt.Errorf("%s: %w", s.name, ErrMissing)
	}
	return s.run(ctx, o)
}

// Environ is a variable per server that was started, or program that was found.
func (r *Set) Environ() []string { return r.environ }

// Stop ends them and removes their files.
func (r *Set) Stop() {
	for _, s := range r.servers {
		s.Stop()
	}
}

// startOnFreePort starts a server on a port that is reserved for it, and waits
// until it is ready. If it ends at once, it is tried on another port.
func startOnFreePort(ctx context.Context, spawnAt func(port int) (*Server, error)) (*Server, error) {
	var problem error
	for range startAttempts {
		port, err := reserve.New()
		if err != nil {
			return nil, err
		}
		s, err := spawnAt(port.Number)
		if err != nil {
			return nil, errors.Join(err, port.Release())
		}
		if problem = s.waitReady(ctx); problem == nil {
			s.port = port
			return s, nil
		}
		s.Crash()
		if err := port.Release(); err != nil {
			return nil, err
		}
		if !errors.Is(problem, errEndedEarly) {
			break
		}
	}
	return nil, problem
}

// spawn starts program as the owner of the folder, with its output in a log
// file there.
func spawn(f folder, quit syscall.Signal, program string, args ...string) (*Server, error) {
	s := &Server{name: filepath.Base(program), folder: f, program: program, args: args, quit: quit}
	return s, s.launch()
}

func (s *Server) launch() error {
	log, err := os.OpenFile(s.folder.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	command := exec.Command(s.program, s.args...)
	command.Dir, command.Stdout, command.Stderr = s.folder.path, log, log
	command.SysProcAttr = s.folder.owner.attributes()
	DieWithParent(command.SysProcAttr, s.quit)
	if err := StartChild(command); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.command, s.ended = command, ended
	// Ends with the process, which Crash waits for.
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	return nil
}

// URL is how clients reach it.
func (s *Server) URL() string { return s.url }

// Restart starts it again, on the same port and files, after Crash, and waits
// until it takes connections.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.launch(); err != nil {
		return fmt.Errorf("start %s again: %w", s.name, err)
	}
	return s.waitReady(ctx)
}

var errEndedEarly = errors.New("it ended before it was ready")

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for !s.ready(ctx) {
		select {
		case <-s.ended:
			return fmt.Errorf("%w; its log ends with:\n%s", errEndedEarly, s.log())
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w; its log ends with:\n%s", startLimit, ctx.Err(), s.log())
		case <-poll.C:
		}
	}
	return nil
}

// Crash ends the process at once, as a crash would, and waits until it is gone.
// Its files stay.
func (s *Server) Crash() {
	_ = s.command.Process.Signal(s.quit)
	select {
	case <-s.ended:
	case <-time.After(stopLimit):
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

// Stop ends the process and removes its files. A server that had ended by
// itself explains failed tests, so its log is shown.
func (s *Server) Stop() {
	select {
	case <-s.ended:
		fmt.Fprintf(os.Stderr, "servers: %s ended before the command did; its log ends with:\n%s\n", s.name, s.log())
	default:
		s.Crash()
	}
	if s.port != nil {
		_ = s.port.Release() // it ends with this process anyway
	}
	s.folder.remove()
}

func (s *Server) log() string {
	text, err := os.ReadFile(s.folder.logPath())
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return lastLines(string(text), 20)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
