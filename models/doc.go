// Package models holds the words of the business and the rules that need no
// database: axes and the moves they allow, observations and how they are put
// together, verification, money, permissions and errors.
//
// It imports the standard library only, so that everything here can be printed,
// tested whole and shown to staff.
package models
