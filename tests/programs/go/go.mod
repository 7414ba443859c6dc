module millrace.invalid/programs

go 1.19
