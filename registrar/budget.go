package registrar

import (
	"fmt"

	"github.com/carillon/carillon/internal/work"
)

// spentProblem is what a field asks for that costs more than one call may.
var spentProblem = fmt.Sprintf("takes more work than one call may do (%d steps, about one second of CPU time)", work.PerCall)

// budget is what a call that looks ahead may spend. done reports what it spent.
func (r *Registrar) budget(call string) (b *work.Budget, done func()) {
	b = work.New(work.PerCall)
	return b, func() { r.worked(call, b.Spent()) }
}
