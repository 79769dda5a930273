package schedule

import (
	"encoding/json"
	"fmt"
)

// MaxProgressNote bounds the note of a progress, in bytes.
const MaxProgressNote = 256

// Progress is how far a run is, as it is stored; "": it did not say.
type Progress string

// ProgressValues are the members of a progress.
type ProgressValues struct {
	Done  uint32 `json:"done"`
	Total uint32 `json:"total,omitempty"` // 0: not known
	Note  string `json:"note,omitempty"`
}

// CheckProgress adds what is wrong with a progress.
func CheckProgress(c *Collect, v ProgressValues) {
	if v.Total > 0 && v.Done > v.Total {
		c.Add("progress.done", v.Done, fmt.Sprintf("is more than progress.total, %d", v.Total), "leave total out if it is not known")
	}
	if len(v.Note) > MaxProgressNote {
		c.Add("progress.note", v.Note, fmt.Sprintf("has %d bytes, more than %d", len(v.Note), MaxProgressNote), "")
	}
}

// ProgressOf is a progress as it is stored. Its note has no NUL.
func ProgressOf(v ProgressValues) Progress {
	v.Note = Storable(v.Note, MaxProgressNote)
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and a text only
	}
	return Progress(text)
}

// Values reads a stored progress; ok = false: there is none.
func (p Progress) Values() (v ProgressValues, ok bool) {
	if p == "" || json.Unmarshal([]byte(p), &v) != nil {
		return ProgressValues{}, false
	}
	return v, true
}

// String is a progress in words: "3 of 10, copying"; "" of none.
func (p Progress) String() string {
	v, ok := p.Values()
	if !ok {
		return ""
	}
	s := fmt.Sprint(v.Done)
	if v.Total > 0 {
		s += fmt.Sprintf(" of %d", v.Total)
	}
	if v.Note != "" {
		s += ", " + v.Note
	}
	return s
}
