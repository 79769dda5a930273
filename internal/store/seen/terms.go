package seen

import (
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// Terms remember of each shard whether the last claim of its term found something
// so. It only says with which statement the next one begins. The zero value is
// ready to use.
type Terms struct {
	of sync.Map // by shard
}

// Note puts down what a claim of the term has found.
func (t *Terms) Note(term schedule.Term, so bool) {
	if so {
		t.of.Store(term.Shard, term)
	} else {
		t.of.Delete(term.Shard)
	}
}

// Is reports what the last claim of the term has found.
func (t *Terms) Is(term schedule.Term) bool {
	noted, ok := t.of.Load(term.Shard)
	return ok && noted == any(term)
}
