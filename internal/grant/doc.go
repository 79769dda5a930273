// Package grant checks execution grants: whether a run is permitted by the grant that its
// schedule names. Only this package knows the format of scopes; others pass ids. The
// claim, the launcher's check before a call, and the registrar use it.
package grant
