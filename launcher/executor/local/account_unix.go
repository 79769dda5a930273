//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// account is the Unix user that commands run as; nil: the user of this process.
type account struct {
	name, home string
	uid, gid   int
}

// findAccount reads LOCAL_EXECUTOR_USER, a name or UID:GID; "" is nil. It refuses
// accounts that would not protect the server.
func findAccount(text string) (*account, error) {
	if text == "" {
		return nil, nil
	}
	refuse := func(problem, hint string) error { return schedule.Invalid("LOCAL_EXECUTOR_USER", text, problem, hint) }
	a := &account{name: text, home: "/"}
	uid, gid, numbers := strings.Cut(text, ":")
	if !numbers {
		found, err := user.Lookup(text)
		if err != nil {
			return nil, refuse("is not a user of this machine", "create it (useradd --system), or use UID:GID")
		}
		uid, gid, a.home = found.Uid, found.Gid, found.HomeDir
	}
	var errs [2]error
	a.uid, errs[0] = strconv.Atoi(uid)
	a.gid, errs[1] = strconv.Atoi(gid)
	switch {
	case errors.Join(errs[:]...) != nil || a.uid < 0 || a.gid < 0:
		return nil, refuse("is neither a user's name nor UID:GID", "write carillon-steps or 990:990")
	case a.uid == 0 || a.gid == 0:
		return nil, refuse("is root, or in its group", "use an unprivileged user")
	case a.uid == os.Geteuid():
		return nil, refuse("is the user of this process", "use another user, or leave the setting out")
	}
	if missing := missingRights(); missing != "" {
		return nil, refuse("cannot be used by this process, which lacks "+missing, "start carillon as root, or leave the setting out")
	}
	return a, nil
}

// attributes makes a command run as the account, without supplementary groups.
func (a *account) attributes(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// passes lets the account pass through folders of ours, but not list them.
func (a *account) passes(folders ...string) error {
	if a == nil {
		return nil
	}
	var errs []error
	for _, folder := range folders {
		errs = append(errs, os.Lchown(folder, -1, a.gid), os.Chmod(folder, 0o710))
	}
	return errors.Join(errs...)
}

// owns makes the account the owner of files and folders, but not of the contents of
// a folder. The parent folder must be ours, or the path could lead elsewhere.
func (a *account) owns(paths ...string) error {
	if a == nil {
		return nil
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.Lchown(path, a.uid, a.gid))
	}
	return errors.Join(errs...)
}

// ownsFile is owns for an open file.
func (a *account) ownsFile(file *os.File) error {
	if a == nil {
		return nil
	}
	return file.Chown(a.uid, a.gid)
}

// environ is the variables that tell a command its user.
func (a *account) environ() []string {
	return []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "SHELL=/bin/sh", "TMPDIR=/tmp"}
}

// probe runs a command as the account in a folder below work, so that a folder that
// it cannot enter is found at the start and not by every run.
func (a *account) probe(work string) error {
	if a == nil {
		return nil
	}
	folder, err := os.MkdirTemp(work, ".probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := a.owns(folder); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", ": > written")
	cmd.Dir, cmd.SysProcAttr = folder, a.attributes(ownGroup())
	if out, err := cmd.CombinedOutput(); err != nil {
		return schedule.Invalid("LOCAL_EXECUTOR_USER", a.name, fmt.Sprintf("cannot run a command in %s: %v %s", filepath.Dir(folder), err, out),
			"check that the user may enter each folder above DATA_DIR, and that /bin/sh exists")
	}
	return nil
}
