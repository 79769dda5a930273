package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
)

// commitFile is what a run writes into its folder of files to commit a state, and events.
const commitFile = "commit.json"

// maxCommitFile bounds the bytes that are read of it: the greatest commit with every character escaped
// is far below.
const maxCommitFile = 8 << 20

// commit reads what a run that has succeeded commits. A file that breaks a rule fails the run.
func (r *Result) commit(key schedule.Key, files string) {
	if r.Status != schedule.StatusSuccess {
		return
	}
	err := r.readCommit(files)
	if err == nil {
		_, err = r.Commit.of(key)
	}
	if err != nil {
		refused := schedule.Outcome{Status: r.Status}
		result.Enter(&refused, nil, err)
		r.Status, r.ErrorCode, r.ErrorMessage, r.Commit = refused.Status, refused.ErrorCode, refused.ErrorMessage, nil
	}
}

// committed is the content of commitFile.
type committed struct {
	State   json.RawMessage `json:"state,omitempty"`
	Publish json.RawMessage `json:"publish,omitempty"`
}

func (c *committed) of(key schedule.Key) (*schedule.Commit, error) {
	if c == nil {
		return nil, nil
	}
	members := result.CommitMembers{State: c.State, Publish: c.Publish}
	return members.Commit(key)
}

func (r *Result) readCommit(files string) error {
	root, err := os.OpenRoot(files) // a link must not lead to files of the server
	if err != nil {
		return fmt.Errorf("read %s: %w", commitFile, err)
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(commitFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", commitFile, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", commitFile)
	case info.Size() > maxCommitFile:
		return fmt.Errorf("%s has %d bytes, more than %d", commitFile, info.Size(), maxCommitFile)
	}
	file, err := root.Open(commitFile)
	if err != nil {
		return fmt.Errorf("read %s: %w", commitFile, err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxCommitFile))
	if err != nil {
		return fmt.Errorf("read %s: %w", commitFile, err)
	}
	if err := json.Unmarshal(content, &r.Commit); err != nil {
		return fmt.Errorf("%s is not a JSON object with state and publish: %w", commitFile, err)
	}
	return nil
}
