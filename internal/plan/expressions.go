package plan

import (
	"sync"

	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// expressions caches parsed expressions. The planner reads every schedule in each decision, and
// parsing a cron expression with its cross-check takes longer than the rest of the decision.
var expressions = memory{parsed: make(map[string]*cronexpr.Expr)}

// maxRemembered expressions take a few megabytes; many schedules share one.
const maxRemembered = 10_000

type memory struct {
	mu     sync.RWMutex
	parsed map[string]*cronexpr.Expr
}

func (m *memory) parse(text string) (*cronexpr.Expr, error) {
	m.mu.RLock()
	expr, ok := m.parsed[text]
	m.mu.RUnlock()
	if ok {
		return expr, nil
	}
	expr, err := cronexpr.Parse(text)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.parsed) >= maxRemembered {
		clear(m.parsed)
	}
	m.parsed[text] = expr
	return expr, nil
}
