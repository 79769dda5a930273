package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profiler is the part of a child that profiles it.
type profiler struct{ file *os.File }

// None is the type of missing arguments and answers.
type None struct{}

// Start begins a CPU profile in a file.
func (p *profiler) Start(path string, _ *None) (err error) {
	if p.file, err = os.Create(path); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.file)
}

// Stop ends the profile and writes the heap profile next to it.
func (p *profiler) Stop(None, *None) error {
	if p.file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	path := p.file.Name()
	if err := p.file.Close(); err != nil {
		return err
	}
	p.file = nil
	heap, err := os.Create(path + ".heap")
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(heap, 0), heap.Close())
}

// Profile begins a CPU profile of the child in folder; "" does nothing, and nor
// does a foreign program.
func (c *Child) Profile(folder, run string) error {
	if folder == "" || c.foreign {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(folder, fmt.Sprintf("%s-%s.pprof", run, c.name)))
	if err != nil {
		return err
	}
	return c.Call("Profile.Start", path, &None{})
}

// EndProfile ends what Profile began.
func (c *Child) EndProfile() error {
	if c.foreign {
		return nil
	}
	return c.Call("Profile.Stop", None{}, &None{})
}
