package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// RateFlags adds the flags of a rate: --rate STARTS/DURATION and --burst, which needs it unless the
// definition comes from a file.
func RateFlags(cmd *cobra.Command, field **carillonv1.Rate) {
	f := cmd.Flags()
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if f.Changed("burst") && !f.Changed("rate") && !f.Changed("file") {
			return Usage(cmd, "--burst needs --rate, such as --rate 10/1s --burst 2")
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
	set := func() *carillonv1.Rate {
		if *field == nil {
			*field = &carillonv1.Rate{}
		}
		return *field
	}
	f.Func("rate", "`STARTS/DURATION`: how many may start per time, evenly spaced, such as 10/1s (default: any number)", func(s string) error {
		starts, per, ok := strings.Cut(s, "/")
		n, err := strconv.ParseUint(starts, 10, 32)
		if !ok || err != nil {
			return fmt.Errorf("%q is not STARTS/DURATION, such as 10/1s", s)
		}
		if per != "" && strings.IndexByte("0123456789", per[0]) < 0 {
			per = "1" + per // 10/s
		}
		var millis *uint32
		if err := Millis(&millis)(per); err != nil {
			return err
		}
		set().Starts, set().PerMs = uint32(n), *millis
		return nil
	})
	f.Func("burst", "`NUMBER` that may start at once after a pause, with --rate (default 1)", func(s string) error {
		var n *uint32
		if err := Uint32(&n)(s); err != nil {
			return err
		}
		set().Burst = *n
		return nil
	})
}
