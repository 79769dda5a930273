package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// lastWords is how long to wait for the output of a killed group. Only a child that
// has left the group can still hold it open.
const lastWords = time.Second

// capture reads the output of a command through its own pipes: os/exec would wait
// until every child has closed them before the group can be ended.
type capture struct{ stdout, stderr pipe }

type pipe struct {
	read, write *os.File
	to          io.Writer
}

func newCapture(stdout, stderr io.Writer) (*capture, error) {
	o := &capture{stdout: pipe{to: stdout}, stderr: pipe{to: stderr}}
	var errs [2]error
	o.stdout.read, o.stdout.write, errs[0] = os.Pipe()
	o.stderr.read, o.stderr.write, errs[1] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		for _, f := range []*os.File{o.stdout.read, o.stdout.write, o.stderr.read, o.stderr.write} {
			_ = f.Close() // nil is allowed
		}
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	return o, nil
}

// copy ends when every writer has closed, or at the deadline of within.
func (p pipe) copy() {
	_, _ = io.Copy(p.to, p.read)
	_ = p.read.Close()
}

// handedOver closes our copies of the command's ends.
func (o *capture) handedOver() {
	_ = o.stdout.write.Close()
	_ = o.stderr.write.Close()
}

// within waits up to d until the command and its children have closed their output.
func (o *capture) within(d time.Duration, copies *sync.WaitGroup) {
	end := time.Now().Add(d)
	_ = o.stdout.read.SetReadDeadline(end)
	_ = o.stderr.read.SetReadDeadline(end)
	copies.Wait()
}
