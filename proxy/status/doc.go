// Package status describes the running edge for an operator: what state every upstream is in and why, and which targets of
// a model's route may take calls. It reads and never changes anything.
package status
