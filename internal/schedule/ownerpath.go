package schedule

import "net/url"

// OwnerPath is where an owner's own files are kept below a folder: "" for what
// is everybody's, else owners/USER_ID, which is one safe path segment whatever
// the user id holds. ok is false for an id that would lead elsewhere.
func OwnerPath(userID string) (path string, ok bool) {
	switch userID {
	case "":
		return "", true
	case ".", "..":
		return "", false
	}
	return OwnersFolder + "/" + url.PathEscape(userID), true
}

// OwnersFolder holds the folders of owners. No workflow kept beside it may have
// this id.
const OwnersFolder = "owners"
