package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit    = 60 * time.Second // one start, on a busy machine
	startAttempts = 5                // each with another port
	stopLimit     = 10 * time.Second // then the server is killed
	pollEvery     = 20 * time.Millisecond
)

// A server is a process that we started and will stop.
type server struct {
	name    string
	url     string
	folder  folder
	command *exec.Cmd
	ready   func(context.Context) bool
	quit    syscall.Signal // ends it fast, without saving anything
	ended   chan struct{}  // closed when the process is gone
}

// running are the servers started so far, with the variable of each.
type running struct {
	servers   []*server
	variables []string
}

// start starts the services one after the other. What was started before a
// failure is kept, for stop.
func (r *running) start(ctx context.Context, services []service) error {
	services, err := provide(services)
	if err != nil {
		return err
	}
	for _, s := range services {
		program, err := s.find()
		if err != nil {
			return fmt.Errorf("find %s: %w", s.name, err)
		}
		started, err := s.start(ctx, program)
		if err != nil {
			return fmt.Errorf("start %s from %s: %w", s.name, program, err)
		}
		r.servers = append(r.servers, started)
		r.variables = append(r.variables, s.variable)
	}
	return nil
}

func (r *running) environ() []string {
	var env []string
	for i, s := range r.servers {
		env = append(env, r.variables[i]+"="+s.url)
	}
	return env
}

func (r *running) stop() {
	for _, s := range r.servers {
		s.stop()
	}
}

// startOnFreePort starts a server on a random port and waits until it is
// ready. Another process may take the port in between: then the server ends
// at once, and another port is tried.
func startOnFreePort(ctx context.Context, spawnAt func(port int) (*server, error)) (*server, error) {
	var problem error
	for range startAttempts {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s, err := spawnAt(port)
		if err != nil {
			return nil, err
		}
		if problem = s.waitReady(ctx); problem == nil {
			return s, nil
		}
		s.end()
		if !errors.Is(problem, errEndedEarly) {
			break
		}
	}
	return nil, problem
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// spawn starts program as the owner of the folder, with its output in a log
// file there.
func spawn(f folder, quit syscall.Signal, program string, args ...string) (*server, error) {
	log, err := os.Create(f.logPath())
	if err != nil {
		return nil, err
	}
	defer log.Close()

	command := exec.Command(program, args...)
	command.Dir, command.Stdout, command.Stderr = f.path, log, log
	command.SysProcAttr = f.owner.attributes()
	dieWithParent(command.SysProcAttr, quit)
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &server{name: filepath.Base(program), folder: f, command: command, quit: quit, ended: make(chan struct{})}
	// Ends with the process, which end waits for.
	go func() {
		_ = command.Wait()
		close(s.ended)
	}()
	return s, nil
}

var errEndedEarly = errors.New("it ended before it was ready")

func (s *server) waitReady(ctx context.Context) error {
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

// end ends the process and waits until it is gone. The folder stays.
func (s *server) end() {
	_ = s.command.Process.Signal(s.quit)
	select {
	case <-s.ended:
	case <-time.After(stopLimit):
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

// stop ends the process and removes its files. A server that had ended by
// itself explains failed tests, so its log is shown.
func (s *server) stop() {
	select {
	case <-s.ended:
		fmt.Fprintf(os.Stderr, "withservices: %s ended before the command did; its log ends with:\n%s\n", s.name, s.log())
	default:
		s.end()
	}
	s.folder.remove()
}

func (s *server) log() string {
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
