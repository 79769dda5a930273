// Package rawjson reads and writes carillon.v1 messages as JSON: names as in the protos, unset fields
// shown, unknown and repeated members refused by name. Every `bytes` field is raw JSON that is kept byte
// for byte: protojson would write base64, and a Struct would lose the order of members and the digits of
// large integers.
//
// protojson does the mapping. This package only replaces the raw members, and checks what protojson
// accepts or reports badly.
package rawjson
