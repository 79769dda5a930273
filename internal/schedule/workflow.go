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
	UserID     string // the owner that it is stored for; empty: all owners
}

// CompareVersions is the order in which stores write versions.
func CompareVersions(a, b *WorkflowVersion) int {
	return cmp.Or(cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Version, b.Version))
}

// WorkflowFilter narrows a list of versions, newest version first; of one version, the one stored
// for all owners comes last.
type WorkflowFilter struct {
	WorkflowID string
	Version    int32    // 0: every version
	UserIDs    []string // those stored for these owners, "" for all owners; nil: any
	// Before names the last row of the page before; version 0 starts at the newest.
	Before struct {
		Version int32
		UserID  string
	}
	Limit int
}

const AllOwners = "*"

// WorkflowShare gives an owner the versions of a workflow that are stored for all owners, present
// and future, to run and read.
type WorkflowShare struct {
	WorkflowID string
	UserID     string // AllOwners: every owner
	GivenBy    string
	GivenAt    time.Time
}

// WorkflowUse names the version that a run of an owner executes.
type WorkflowUse struct {
	UserID     string // empty: a run without an owner
	WorkflowID string
	Version    int32
}

// WorkflowAccess says which versions exist for a WorkflowUse.
type WorkflowAccess struct {
	Own   bool // the owner has stored this version itself
	Given bool // the owner was given the versions stored for all owners
}

// LoadsFrom decides which version a run executes: it returns the UserID that the version is stored
// for. The owner's version comes first, so that nothing stored later replaces it. A version stored
// for all owners counts if it was given to this owner. Another owner's version is never loaded: ok
// is false.
func (u WorkflowUse) LoadsFrom(s WorkflowAccess) (userID string, ok bool) {
	switch {
	case s.Own:
		return u.UserID, true
	case s.Given, u.UserID == "":
		return "", true
	}
	return "", false
}

// CanonicalJSON is the form for hashes: members sorted by key, no white space, numbers as written.
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

// SameJSON reports whether two JSON texts are equal apart from layout.
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
