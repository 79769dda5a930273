package cronexpr

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// zoneArchive is lib/time/zoneinfo.zip of a Go distribution (public domain).
// time.LoadLocation is of no use here, because it prefers the host's files and
// two replicas with different hosts would disagree. To update, copy a newer
// archive, set tzdataVersion to the DATA of lib/time/update.bash next to it, and
// add the checksum to the test.
//
//go:embed zoneinfo.zip
var zoneArchive []byte

const tzdataVersion = "2025c"

// TZDataVersion returns the release of the embedded zone data, such as 2025c.
func TZDataVersion() string { return tzdataVersion }

// Zones returns the names that LoadLocation accepts, sorted.
func Zones() []string {
	names := make([]string, 0, len(zoneFiles()))
	for name := range zoneFiles() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var (
	locationsByName sync.Map // string → *time.Location
	tables          sync.Map // *time.Location → *zoneTable, for locations loaded here
)

// LoadLocation returns the zone of exactly this name in the embedded data. Any
// other name, the empty name and Local included, is a *ZoneError. A name always
// yields the same pointer, and UTC yields time.UTC.
func LoadLocation(name string) (*time.Location, error) {
	if loc, ok := locationsByName.Load(name); ok {
		return loc.(*time.Location), nil
	}
	file, ok := zoneFiles()[name]
	if !ok {
		return nil, &ZoneError{Name: name, Problem: nameProblem(name)}
	}
	loc, err := readLocation(name, file)
	if err != nil {
		return nil, &ZoneError{Name: name, Problem: fmt.Sprintf("the embedded data are damaged: %v", err)}
	}
	// The table goes first: who can see the location can see its table.
	tables.Store(loc, newZoneTable(loc))
	winner, lost := locationsByName.LoadOrStore(name, loc)
	if lost && winner != loc {
		tables.Delete(loc)
	}
	return winner.(*time.Location), nil
}

// zoneFiles indexes the archive by zone name.
var zoneFiles = sync.OnceValue(func() map[string]*zip.File {
	archive, err := zip.NewReader(bytes.NewReader(zoneArchive), int64(len(zoneArchive)))
	if err != nil {
		panic(fmt.Sprintf("cronexpr: read the embedded zone data: %v", err))
	}
	files := make(map[string]*zip.File, len(archive.File))
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") {
			files[file.Name] = file
		}
	}
	return files
})

func readLocation(name string, file *zip.File) (*time.Location, error) {
	if name == "UTC" {
		return time.UTC, nil
	}
	content, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	raw, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, raw)
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "is empty; write an IANA name such as Europe/Berlin, or UTC"
	case name == "Local":
		return "depends on the machine; write the IANA name of the place, or UTC"
	}
	for known := range zoneFiles() {
		if strings.EqualFold(known, name) {
			return "is spelled " + known
		}
	}
	return "is not in the zone data " + tzdataVersion + "; write an IANA name such as Europe/Berlin, or UTC"
}
