package app

import (
	"fmt"

	"github.com/carillon/carillon/internal/private"
)

// inDataDir are the names, or prefixes of names, of Carillon's files in DATA_DIR.
var inDataDir = []string{"carillon.db", "report.secret", "runs", "work"}

// useDataDir creates DATA_DIR without access for other users. It is called only before a write: a
// process on Postgres may need none.
func (c *Config) useDataDir() error {
	if err := private.Folder(c.DataDir, inDataDir...); err != nil {
		return fmt.Errorf("DATA_DIR: %w", err)
	}
	return nil
}
