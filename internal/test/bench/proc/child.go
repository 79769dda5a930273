// Package proc runs the processes that are measured as children of the harness,
// speaks to them over their own input and output, and reads from /proc what they
// cost.
package proc

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/tools/servers"
)

// kindVariable names the kind of a child process; other processes do not have it.
const kindVariable = "BENCH_CHILD"

// Kind returns the kind of this process; empty: the harness itself.
func Kind() string { return os.Getenv(kindVariable) }

// Child is a process of the harness' own program in another part.
type Child struct {
	name    string // in errors and of its profile
	foreign bool   // another program, which cannot be profiled
	command *exec.Cmd
	calls   *rpc.Client
}

// Start starts a child of a kind, which is known by a name, with settings added
// to this environment. It ends with us, however we end.
func Start(kind, name string, settings map[string]string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), kindVariable+"="+kind)
	for name, value := range settings {
		command.Env = append(command.Env, name+"="+value)
	}
	return start(&Child{name: name, command: command}, rpc.NewClient)
}

// StartForeign starts another program in a folder, which answers as our own
// children do, but in net/rpc's JSON, one object a line.
func StartForeign(name, folder, program string, args ...string) (*Child, error) {
	command := exec.Command(program, args...)
	command.Dir = folder
	return start(&Child{name: name, command: command, foreign: true}, jsonrpc.NewClient)
}

func start(c *Child, speak func(io.ReadWriteCloser) *rpc.Client) (*Child, error) {
	c.command.Stderr = os.Stderr
	in, err := c.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, who end it in order
	servers.DieWithParent(c.command.SysProcAttr, syscall.SIGKILL)
	if err := servers.StartChild(c.command); err != nil {
		return nil, fmt.Errorf("start the %s: %w", c.name, err)
	}
	c.calls = speak(pipe{out, in})
	return c, nil
}

// Call asks the child, e.g. "Part.Load".
func (c *Child) Call(method string, args, reply any) error {
	if err := c.calls.Call(method, args, reply); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// PID is the child's process.
func (c *Child) PID() int { return c.command.Process.Pid }

// endsWithin is how long a child may take to end in order.
const endsWithin = 15 * time.Second

// Stop tells the child to end, by closing its input, and waits for it.
func (c *Child) Stop() error {
	if c == nil {
		return nil
	}
	err := c.calls.Close()
	last := time.AfterFunc(endsWithin, func() { _ = c.command.Process.Kill() })
	defer last.Stop()
	if waitErr := c.command.Wait(); waitErr != nil {
		return fmt.Errorf("the %s ended: %w", c.name, waitErr)
	}
	if errors.Is(err, rpc.ErrShutdown) { // it had ended by itself
		return nil
	}
	return err
}

// pipe is both directions as net/rpc wants them.
type pipe struct {
	io.ReadCloser
	io.WriteCloser
}

// Close closes both directions: the child takes the end of its input for the
// end of its time.
func (p pipe) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

// Serve answers the harness by the exported methods of part until our input
// ends. Nothing else may write to standard output.
func Serve(part any) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Part", part); err != nil {
		return err
	}
	if err := server.RegisterName("Profile", &profiler{}); err != nil {
		return err
	}
	server.ServeConn(pipe{os.Stdin, os.Stdout})
	return nil
}
