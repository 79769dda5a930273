package run

import (
	"fmt"

	"github.com/carillon/carillon/internal/cli/render"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// unique is the unique key that a run holds; "": none.
func unique(p *render.Page, u *carillonv1.HeldUniqueKey) string {
	if u == nil {
		return ""
	}
	s := fmt.Sprintf("%s, scope %s", u.GetKey(), u.GetScope())
	if u.GetUntil() != nil {
		s += " until " + p.When(u.GetUntil())
	}
	if n := u.GetReplaced(); n > 0 {
		s += ", replaced " + render.Count(int(n), "time")
	}
	if u.GetFireBy() != nil {
		s += ", starts at the latest " + p.When(u.GetFireBy())
	}
	return s
}
