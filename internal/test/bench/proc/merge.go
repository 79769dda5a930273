package proc

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

// weight is what the samples of each profile sum up to in a merged one. One of
// less than a second (100 samples) says nothing of where time goes, and is left out.
const (
	weight       = 1_000_000
	leastSamples = 100
)

// Merge makes one CPU profile of several, in which each counts alike however long
// it took, for the compiler (https://go.dev/doc/pgo). It keeps calls and lines and
// drops what belongs to the machine: addresses, and the paths of binaries.
func Merge(paths []string) (*profile.Profile, error) {
	var all []*profile.Profile
	for _, path := range paths {
		p, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if scale(p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no profile has %d samples: name those that -profile has written", leastSamples)
	}
	return profile.Merge(all)
}

func read(path string) (*profile.Profile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err != nil {
		return nil, err
	}
	if len(p.SampleType) != 2 || p.SampleType[0].Type != "samples" {
		return nil, errors.New("is no CPU profile")
	}
	p.Mapping, p.Comments, p.TimeNanos, p.DurationNanos = nil, nil, 0, 0
	for _, l := range p.Location {
		l.Mapping, l.Address = nil, 0
	}
	for _, s := range p.Sample {
		s.Label, s.NumLabel, s.NumUnit = nil, nil, nil
	}
	return p, p.CheckValid()
}

// scale gives p its weight, and reports whether it is to have any.
func scale(p *profile.Profile) bool {
	var total int64
	for _, s := range p.Sample {
		total += s.Value[0]
	}
	if total < leastSamples {
		return false
	}
	p.Scale(weight / float64(total))
	return true
}
