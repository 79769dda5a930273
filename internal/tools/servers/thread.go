package servers

import (
	"os/exec"
	"runtime"
	"sync"
)

// starts are the children that are to be started. The kernel ends a child
// when the thread that started it ends (see DieWithParent), so one thread that
// never ends starts them all.
var starts = sync.OnceValue(func() chan<- func() {
	queue := make(chan func())
	go func() { // for as long as this process lives
		runtime.LockOSThread()
		for start := range queue {
			start()
		}
	}()
	return queue
})

// StartChild is command.Start on a thread that lives as long as we do.
func StartChild(command *exec.Cmd) error {
	started := make(chan error)
	starts() <- func() { started <- command.Start() }
	return <-started
}
