package postgres

import (
	"sync"

	"github.com/carillon/carillon/internal/schedule"
)

// terms remember of each shard whether the last claim of its term found something
// so. It only says with which statement the next one begins.
type terms struct {
	of sync.Map // by shard
}

func (t *terms) note(term schedule.Term, so bool) {
	if so {
		t.of.Store(term.Shard, term)
	} else {
		t.of.Delete(term.Shard)
	}
}

func (t *terms) is(term schedule.Term) bool {
	noted, ok := t.of.Load(term.Shard)
	return ok && noted == any(term)
}
