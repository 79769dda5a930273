// Package grant judges execution grants: whether a run may take place on the
// grant that its schedule names. It is the only package that knows what scopes
// look like; all others pass ids. Both checks of a slot's life, at the claim and
// before the executor is called, come here, and so does the registrar's.
package grant
