package queue

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// uniqueFlags are the flags of the unique key of a run. The key is complete once the flags are
// parsed; nil: none of them was given.
func uniqueFlags(f *pflag.FlagSet) (key func() *carillonv1.UniqueKey) {
	u := &carillonv1.UniqueKey{}
	var period, quiet, longest *uint32
	f.Func("unique", "`KEY` that at most one run of the queue and owner has", func(text string) error {
		if text == "" { // such as an unset variable: without a key the run would be one more
			return errors.New("write a key of 1 to 200 characters")
		}
		u.Key = text
		return nil
	})
	f.Func("unique-scope", "how long the run holds the key: waiting, open (default; with its retries) or period", command.Text(&u.Scope))
	f.Func("unique-period", "`DURATION` that the key is held from the entry on, with --unique-scope period", command.Millis(&period))
	f.Func("on-duplicate", "while another run holds the key: return it (default), replace its input, priority and start, or refuse", command.Text(&u.OnDuplicate))
	f.Func("debounce", "start once no request has replaced the run for a `DURATION`, with --on-duplicate replace", command.Millis(&quiet))
	f.Func("debounce-max", "but not longer than a `DURATION` after the first request (default: ten times --debounce)", command.Millis(&longest))
	return func() *carillonv1.UniqueKey {
		if u.GetKey() == "" && u.Scope == nil && period == nil && u.OnDuplicate == nil && quiet == nil && longest == nil {
			return nil
		}
		if period != nil {
			u.PeriodMs = *period
		}
		if quiet != nil || longest != nil {
			u.Debounce = &carillonv1.Debounce{}
		}
		if quiet != nil {
			u.Debounce.QuietMs = *quiet
		}
		if longest != nil {
			u.Debounce.MaxMs = *longest
		}
		return u
	}
}
