// Package rawjson is the JSON convention of carillon.v1, wherever its messages
// are read or written: names as in the protos, unset fields shown, unknown and
// repeated members refused by name, and every `bytes` field is raw JSON that
// stands in the text as itself and comes through byte for byte (protojson
// would make base64 of it; a Struct would lose the order of members and the
// digits of large integers).
//
// protojson does the mapping. This package only exchanges the raw members on
// the way in and out, and judges what protojson lets pass or cannot say well.
package rawjson
