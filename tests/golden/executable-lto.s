golden_call:
    mov rax,rdi
    mov rcx,QWORD PTR [golden_executable::site::_::__RINGTRACE_GATE]
    test rcx,rcx
    jne .L0
    inc rax
    ret
.L0:
    push rbx
    mov rbx,rax
    mov rdi,rax
    call golden_executable::site::_::<impl golden_executable::site::request>::__emit
    mov rax,rbx
    pop rbx
    inc rax
    ret
golden_fire:
    mov rax,rdi
    mov rcx,QWORD PTR [golden_executable::site::_::__RINGTRACE_GATE]
    test rcx,rcx
    jne .L0
    inc rax
    ret
.L0:
    push rbx
    mov rbx,rax
    mov rdi,rax
    call golden_executable::site::costly
    mov rdi,rax
    call golden_executable::site::_::<impl golden_executable::site::request>::__emit
    mov rax,rbx
    pop rbx
    inc rax
    ret
