package memory_test

import (
	"testing"

	"github.com/carillon/carillon/internal/store/memory"
	"github.com/carillon/carillon/internal/test/storetest"
)

var _ storetest.Poisoner = (*memory.Store)(nil)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(testing.TB) storetest.Store {
		return memory.New(memory.Options{QueuedRetry: storetest.QueuedRetry})
	})
}
