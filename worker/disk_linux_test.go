package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// noDisk is the exit code that says that nothing was tried.
const noDisk = 77

// TestNothingFiresWhileTheDiskIsFull runs itself again where it may mount a
// small disk of its own: in a user and mount namespace.
func TestNothingFiresWhileTheDiskIsFull(t *testing.T) {
	if dir := os.Getenv("SMALL_DISK"); dir != "" {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
			fmt.Println("mount:", err)
			os.Exit(noDisk)
		}
		fireOnAFullDisk(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "SMALL_DISK="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == noDisk) {
		t.Logf("this system mounts no disk for its users, nothing was tried: %v %s", err, out)
		return
	}
	if err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// fireOnAFullDisk: what cannot be recorded is not fired; when there is room
// again, what fell due meanwhile fires, each slot once.
func fireOnAFullDisk(t *testing.T, dir string) {
	inBubble(t, func(r *rig) {
		r.every("s", time.Second, overlap(schedule.OverlapAllow))
		stop := r.start()
		defer stop()
		r.until(3500 * time.Millisecond)
		filler := filepath.Join(dir, "filler")
		fill(t, filler)
		r.until(12500 * time.Millisecond)
		// What was armed when it became full may go: its key is recorded.
		for _, call := range r.executor.calls("s") {
			if call.ScheduledFor.After(r.at(4 * time.Second)) {
				t.Errorf("the slot at +%s was fired while nothing could be recorded", call.ScheduledFor.Sub(r.began))
			}
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		r.until(20500 * time.Millisecond)
		keys := make(map[schedule.Key]int)
		for _, call := range r.executor.calls("s") {
			keys[call.Key]++
		}
		for at := time.Second; at <= 20*time.Second; at += time.Second {
			run := r.slot("s", at)
			r.is(run, schedule.StatusSuccess, "")
			if keys[run.Key] == 0 {
				t.Errorf("the slot at +%s is SUCCESS and was never fired", at)
			}
		}
	}, func(r *rig) { r.path = filepath.Join(dir, "carillon.db") })
}

// fill writes until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
