@echo off
rem What make is elsewhere: `make lab`, in PowerShell `.\make lab`. The targets stand in Makefile, and .ci\make.py reads it.
setlocal EnableExtensions DisableDelayedExpansion
set "LAUNCHER=py"
where /q py || set "LAUNCHER=python"
%LAUNCHER% "%~dp0.ci\make.py" %*
if "%ERRORLEVEL%"=="9009" echo The book needs Python 3.11 or newer, from https://www.python.org/downloads/ >&2
exit /b %ERRORLEVEL%
