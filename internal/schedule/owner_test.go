package schedule_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillon/carillon/internal/schedule"
)

func TestOwnerIDs(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		valid    bool
	}{
		{"a plain id", "ada", true},
		{"an id of Auth0", "auth0|5f7c8ec7c33c6c004bbafe82", true},
		{"an e-mail address", "ada.lovelace+ops@example.com", true},
		{"a URL", "https://id.example/users/7?x=%20", true},
		{"letters of any script", "Zoë Ångström 李", true},
		{"an emoji", "🔔", true},
		{"a combining mark stays as it is", "e\u0301", true},
		{"a colon", "team:ada", true},
		{"128 characters of four bytes", strings.Repeat("🔔", 128), true},
		{"129 characters", strings.Repeat("a", 129), false},
		{"nothing", "", false},
		{"the sign for all owners", "*", false},
		{"a space before", " ada", false},
		{"a space behind", "ada ", false},
		{"a line break", "ada\neve", false},
		{"NUL", "ada\x00", false},
		{"DEL", "ada\x7f", false},
		{"a control character of Latin-1", "ada\u0085", false},
		{"a space without a break", "ada\u00a0eve", false},
		{"a character without width", "ada\u200b", false},
		{"a change of direction", "ada\u202eeve", false},
		{"a line separator", "ada\u2028eve", false},
		{"a private character", "ada\ue000", false},
		{"bytes that are not UTF-8", "ada\xff", false},
	} {
		if got := schedule.ValidOwner(tc.id); got != tc.valid {
			t.Errorf("%s: ValidOwner(%q) = %t", tc.name, tc.id, got)
		}
	}
}

func TestAnOwnerComesOutOfItsOverlapKeys(t *testing.T) {
	for _, owner := range []string{"ada", "org/ada", "https://id.example/7", "a:b", "/", "a/"} {
		d := schedule.Definition{UserID: owner, OverlapKey: "k:1"}
		if got := schedule.Owner(d.QualifiedOverlapKey()); got != owner {
			t.Errorf("Owner(%q) = %q, want %q", d.QualifiedOverlapKey(), got, owner)
		}
	}
}

func TestTheFolderOfAnOwnerIsOneUniqueSegment(t *testing.T) {
	draw := rapid.StringOfN(rapid.Rune(), 1, 128, -1).Filter(schedule.ValidOwner)
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		pathA, okA := schedule.OwnerPath(a)
		pathB, okB := schedule.OwnerPath(b)
		if okA && okB && (pathA == pathB) != (a == b) {
			t.Fatalf("%q and %q have the folders %q and %q", a, b, pathA, pathB)
		}
		segment := strings.TrimPrefix(pathA, schedule.OwnersFolder+"/")
		if okA && (len(segment) > 255 || strings.ContainsAny(segment, "/\\\x00") || segment == "." || segment == "..") {
			t.Fatalf("%q is no single file name", segment)
		}
	})
	if path, _ := schedule.OwnerPath(strings.Repeat("ä", 128)); path != "owners/%sha256-290d9d82ff45cbf7e89de26126b1c6e9"+path[len("owners/%sha256-")+32:] {
		t.Errorf("the folder of a long id is %s", path)
	}
}
