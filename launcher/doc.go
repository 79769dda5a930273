// Package launcher is step 5 of a slot's life. It records the key, loads the DAG
// of the workflow, sends the run to an executor, with one effect, and settles it by the
// answer.
package launcher
