package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
)

// maxPathSegment keeps an owner's folder below the 255 bytes of file systems.
const maxPathSegment = 200

// OwnerPath is where an owner's files are kept below a folder: "" for files of all owners, else
// owners/SEGMENT. The segment is the user id escaped as in a URL, or %sha256- and its hash if that
// is too long for a file name. No escape begins with %s, so the two never collide. ok is false for
// an id that would lead elsewhere.
func OwnerPath(userID string) (path string, ok bool) {
	switch userID {
	case "":
		return "", true
	case ".", "..":
		return "", false
	}
	segment := url.PathEscape(userID)
	if len(segment) > maxPathSegment {
		sum := sha256.Sum256([]byte(userID))
		segment = "%sha256-" + hex.EncodeToString(sum[:])
	}
	return OwnersFolder + "/" + segment, true
}

// OwnersFolder holds the folders of owners, so no workflow in the same folder may have this id.
const OwnersFolder = "owners"
