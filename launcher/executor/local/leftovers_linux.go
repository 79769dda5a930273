package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// endLeftovers kills the processes of a run after its Carillon was killed. The kernel
// has ended the commands themselves (see ownGroup), but not their children. They are
// found by the key in their environment. A process with a session of its own was
// meant to live on.
func endLeftovers(key string, session int) {
	if session == noSession {
		return
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00CARILLON_KEY="+key+"\x00")) {
			continue
		}
		dir := filepath.Dir(path)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid != os.Getpid() && sessionOf(dir) == session {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func ownSession() int { return sessionOf("/proc/self") }

// sessionOf reads the session of a process from its stat file. 0 is a valid session:
// its leader is outside this container.
func sessionOf(dir string) int {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return noSession
	}
	// "pid (name) state ppid pgrp session …": the name may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 4 {
		return noSession
	}
	session, err := strconv.Atoi(string(fields[3]))
	if err != nil {
		return noSession
	}
	return session
}
