//go:build !unix

package local

import (
	"os"
	"syscall"

	"github.com/carillon/carillon/internal/schedule"
)

// account is always nil: commands run as the user of this process.
type account struct{}

func findAccount(text string) (*account, error) {
	if text != "" {
		return nil, schedule.Invalid("LOCAL_EXECUTOR_USER", text, "is for Unix only", "leave it out")
	}
	return nil, nil
}

func (a *account) attributes(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

func (a *account) passes(...string) error { return nil }

func (a *account) owns(...string) error { return nil }

func (a *account) ownsFile(*os.File) error { return nil }

func (a *account) environ() []string { return nil }

func (a *account) probe(string) error { return nil }
