package registrar

import (
	"fmt"

	"github.com/carillon/carillon/internal/work"
)

// spentProblem is the error of a field that exceeds the budget of one call.
var spentProblem = fmt.Sprintf("takes more work than one call may do (%d steps, about one second of CPU time)", work.PerCall)

// budget is the work that one call may do. done records what it used.
func (r *Registrar) budget(call string) (b *work.Budget, done func()) {
	b = work.New(work.PerCall)
	return b, func() { r.worked(call, b.Spent()) }
}
