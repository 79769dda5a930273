package app

import (
	"fmt"

	"github.com/carillon/carillon/internal/private"
)

// inDataDir are the names of what Carillon keeps in DATA_DIR, or what they
// begin with.
var inDataDir = []string{"carillon.db", "report.secret", "runs", "work"}

// useDataDir makes DATA_DIR, closed to other users of the machine. Only what
// writes there asks for it: a process on Postgres may have none.
func (c *Config) useDataDir() error {
	if err := private.Folder(c.DataDir, inDataDir...); err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	return nil
}
