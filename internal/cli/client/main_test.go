package client

import (
	"testing"

	"github.com/carillon/carillon/internal/testservices/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
