package memstore_test

import (
	"testing"

	"github.com/carillon/carillon/internal/sim/memstore"
	"github.com/carillon/carillon/internal/store/storetest"
)

var _ storetest.Poisoner = (*memstore.Store)(nil)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(testing.TB) storetest.Store { return memstore.New(memstore.Options{}) })
}
