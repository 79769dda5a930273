package schedule

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// WorkflowVersion is one immutable version of a workflow's DAG.
type WorkflowVersion struct {
	WorkflowID string
	Version    int32
	DAG        json.RawMessage // as sent
	Hash       [32]byte        // sha256 of the canonical form
	CreatedAt  time.Time
	UserID     string // the owner that it was stored for; empty: nobody
}

// CompareVersions is the order in which stores write versions.
func CompareVersions(a, b *WorkflowVersion) int {
	return cmp.Or(cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.Version, b.Version))
}

// CanonicalJSON is the form that hashes are taken over: object members sorted
// by key, no white space, numbers as written.
func CanonicalJSON(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // numbers stay as they are written
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if dec.More() {
		return nil, fmt.Errorf("read JSON: more than one value")
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // maps are written with sorted keys
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// SameJSON reports whether two JSON texts say the same, in whatever layout.
func SameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	one, err := CanonicalJSON(a)
	if err != nil {
		return false
	}
	other, err := CanonicalJSON(b)
	return err == nil && bytes.Equal(one, other)
}

// CanonicalHash is the sha256 of the canonical form.
func CanonicalHash(raw []byte) ([32]byte, error) {
	c, err := CanonicalJSON(raw)
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(c), nil
}
