package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// lastWords is how long the output of a group that was killed is waited for.
// Only a child that has left the group can still hold it open.
const lastWords = time.Second

// capture carries what a command writes. The pipes are our own: os/exec would
// wait for its own until every child has closed them, before the group can be
// ended.
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

// copy ends when every writer has closed, or when within has set an end.
func (p pipe) copy() {
	_, _ = io.Copy(p.to, p.read)
	_ = p.read.Close()
}

// handedOver closes our copies of the ends that the command writes to.
func (o *capture) handedOver() {
	_ = o.stdout.write.Close()
	_ = o.stderr.write.Close()
}

// within waits until the command and its children have closed their output,
// but not longer than d.
func (o *capture) within(d time.Duration, copies *sync.WaitGroup) {
	end := time.Now().Add(d)
	_ = o.stdout.read.SetReadDeadline(end)
	_ = o.stderr.read.SetReadDeadline(end)
	copies.Wait()
}
