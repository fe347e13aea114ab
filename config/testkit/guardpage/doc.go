// Package guardpage provides memory for tests of code that reads through pointers, as vector
// instructions do. A read one byte too far hits an unreadable page and ends the test's process. The
// package imports no package of ours, so tests of any package can use it.
package guardpage
