package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/tools/servers"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

// child is one process with addresses of its own. It can be killed and started
// again: it is then the same member of the deployment with another pid.
type child struct {
	name     string
	binary   string
	args     []string
	env      []string
	httpAddr string // "" if it serves none
	folder   string
	points   string // the file that arms its failpoints
	log      *os.File

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait
}

func newChild(folder, logs, name, binary string, args, env []string) (*child, error) {
	c := &child{name: name, binary: binary, args: args, env: env, folder: filepath.Join(folder, name)}
	c.points = filepath.Join(c.folder, "failpoint")
	if err := os.MkdirAll(c.folder, 0o755); err != nil {
		return nil, err
	}
	var err error
	c.log, err = os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return c, err
}

// start starts it and does not wait until it is ready. The environment is
// clean: what the developer has set is not tested.
func (c *child) start() error {
	cmd := exec.Command(c.binary, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.folder, c.log, c.log
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.folder, "DATA_DIR=" + c.folder + "/data", "CARILLON_FAILPOINT_FILE=" + c.points,
	}, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	servers.DieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	if err := os.WriteFile(c.points, nil, 0o644); err != nil {
		return err
	}
	if err := servers.StartChild(cmd); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	ended := make(chan struct{})
	c.mu.Lock()
	c.cmd, c.ended = cmd, ended
	c.mu.Unlock()
	go func() { // ends with the process, which kill and terminate wait for
		err := cmd.Wait()
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		close(ended)
	}()
	return nil
}

func (c *child) current() (*exec.Cmd, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd, c.ended
}

// startBound is how long a process may take to be ready, on a busy machine.
const startBound = 60 * time.Second

func (c *child) awaitReady(ctx context.Context) error {
	_, ended := c.current()
	return within(ctx, startBound, c.name+" is ready", func() error {
		select {
		case <-ended:
			return fmt.Errorf("%s ended while it started: %w; its log is %s", c.name, c.err, c.log.Name())
		default:
		}
		answer, err := probe.Get("http://" + c.httpAddr + "/readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %d", answer.StatusCode)
		}
		return nil
	})
}

var probe = &http.Client{Timeout: 2 * time.Second}

// kill ends it with SIGKILL and waits for the kernel to bury it.
func (c *child) kill() {
	cmd, ended := c.current()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it fails only when it has ended already
	<-ended
}

func (c *child) signal(s syscall.Signal) {
	if cmd, _ := c.current(); cmd != nil {
		_ = cmd.Process.Signal(s) // it fails only when it has ended already
	}
}

// terminate sends SIGTERM and waits for the end, which must be clean.
func (c *child) terminate(bound time.Duration) error {
	cmd, ended := c.current()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: SIGTERM: %w", c.name, err)
	}
	select {
	case <-ended:
	case <-time.After(bound):
		c.kill()
		return fmt.Errorf("%s had not ended %s after SIGTERM", c.name, bound)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return fmt.Errorf("%s ended with %w after SIGTERM; want exit code 0", c.name, c.err)
	}
	return nil
}

// arm tells its failpoints what to do.
func (c *child) arm(rule string) error {
	next := c.points + ".next"
	if err := os.WriteFile(next, []byte(rule), 0o644); err != nil {
		return err
	}
	return os.Rename(next, c.points)
}

// run runs a command of the binary to its end.
func (c *child) run(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.folder, &out, &out
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.folder, "DATA_DIR=" + c.folder + "/data"}, c.env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("carillon %v: %w\n%s", args, err, &out)
	}
	return nil
}

// within polls check until it answers nil or the bound has passed.
func within(ctx context.Context, bound time.Duration, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s: %w", bound, what, err)
		case <-poll.C:
		}
	}
}

// ports gives addresses for processes that are killed and start again at the
// same ones. They are held until the rig ends.
type ports struct{ held []*reserve.Port }

func (p *ports) free() (string, error) {
	port, err := reserve.New()
	if err != nil {
		return "", err
	}
	p.held = append(p.held, port)
	return port.Addr(), nil
}
