// Package guardpage provides memory for tests of code that reads through pointers, as vector
// instructions do. A read that is one byte too long hits an unreadable page and ends the test's
// process. The package imports no package of ours, so tests of any package can use it.
package guardpage
