package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

// process is one carillon with addresses of its own. It can be killed and
// started again: it is then the same deployment with another pid.
type process struct {
	t        testing.TB
	name     string
	args     []string
	env      []string // on top of the addresses
	httpAddr string
	grpcAddr string
	dir      string
	log      *logTail
	expects  string // part of errors that the test brings about; "": of none

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait
}

// newProcess prepares a process; it ends with the test, and shows its log when
// the test failed.
func newProcess(t testing.TB, name string, args, env []string) *process {
	t.Helper()
	p := &process{
		t: t, name: name, args: args, env: env, dir: t.TempDir(),
		httpAddr: reserve.Addr(t), grpcAddr: reserve.Addr(t), log: &logTail{},
	}
	t.Cleanup(func() {
		p.kill()
		for _, line := range p.log.alarms() {
			if p.expects != "" && strings.Contains(line, p.expects) {
				continue
			}
			t.Errorf("%s: logged what must never be logged: %s", name, line)
		}
		if t.Failed() {
			t.Logf("%s: the whole log is in %s, its end is:\n%s", name, p.log.save(t), p.log.last(40))
		}
	})
	return p
}

// environ is a clean environment: what the developer has set is not tested.
func (p *process) environ() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "DATA_DIR=" + p.dir + "/data",
		"HTTP_ADDR=" + p.httpAddr, "GRPC_ADDR=" + p.grpcAddr, "CARILLON_SERVER=" + p.grpcAddr,
	}
	return append(env, p.env...)
}

// start starts it and does not wait until it is ready.
func (p *process) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	cmd := exec.Command(binary(p.t), p.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.environ(), p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr)
	if err := startChild(cmd); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	p.log.note(fmt.Sprintf("---- pid %d started at %s", cmd.Process.Pid, clock(time.Now())))
	p.cmd, p.ended = cmd, make(chan struct{})
	ended := p.ended
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
}

// startBound is how long a process may take to be ready, on a busy machine.
const startBound = 30 * time.Second

// startReady starts it and waits until /readyz says so.
func (p *process) startReady() {
	p.t.Helper()
	p.start()
	p.awaitReady()
}

func (p *process) awaitReady() {
	p.t.Helper()
	eventually(p.t, startBound, p.name+" is ready", func() error {
		select {
		case <-p.ended:
			p.t.Fatalf("%s ended while it started: %v\n%s", p.name, p.err, p.log.last(20))
		default:
		}
		return p.ready()
	})
}

func (p *process) ready() error {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + p.httpAddr + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %d", resp.StatusCode)
	}
	return nil
}

// kill ends it with SIGKILL and waits for the kernel to bury it.
func (p *process) kill() {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it fails only when it has ended already
	<-ended
}

// terminate sends SIGTERM and returns how long it took to end. Exit code 0
// within the bound is demanded.
func (p *process) terminate(bound time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("%s: SIGTERM: %v", p.name, err)
	}
	select {
	case <-p.ended:
	case <-time.After(bound):
		p.t.Fatalf("%s has not ended %s after SIGTERM", p.name, bound)
	}
	if p.err != nil {
		p.t.Errorf("%s ended with %v after SIGTERM; want exit code 0", p.name, p.err)
	}
	return time.Since(began)
}

// command runs a client command of the binary against this process.
func (p *process) command(stdin string, args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	cmd := exec.Command(binary(p.t), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Stdin = p.dir, p.environ(), &out, &errs, strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(cmd.SysProcAttr)
	if err := startChild(cmd); err != nil {
		p.t.Fatalf("carillon %s: %v", strings.Join(args, " "), err)
	}
	stop := time.AfterFunc(startBound, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("carillon %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// eventually calls check until it answers nil, and fails the test with its
// last error when that has not happened within the bound.
func eventually(t testing.TB, bound time.Duration, what string, check func() error) {
	t.Helper()
	if err := within(bound, check); err != nil {
		t.Fatalf("not within %s: %s: %v", bound, what, err)
	}
}

// within polls check until it answers nil or the bound has passed.
func within(bound time.Duration, check func() error) error {
	deadline := time.Now().Add(bound)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(25 * time.Millisecond) // between two polls
	}
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }
